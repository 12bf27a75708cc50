"""Reports: runs of several seeds as curves, tables and one HTML page, with intervals and with what is wrong with them.

    groups = collect(["runs/a", "runs/b"])
    print(markdown(summarise(groups)))
    write_report(groups, "report")
    problems(groups)                # sentences; empty if the comparison is fair

Runs make a group if algorithm, environment and configuration agree; their seeds are the runs that statistics are of.
"""

from jaxrl.report.checks import problems
from jaxrl.report.collect import Member, SeedGroup, collect
from jaxrl.report.tables import Summary, csv_table, markdown, summarise
from jaxrl.report.write import write_report

__all__ = [
    "Member",
    "SeedGroup",
    "Summary",
    "collect",
    "csv_table",
    "markdown",
    "problems",
    "summarise",
    "write_report",
]
