"""Reports: runs of several seeds as curves, tables and one HTML page, with intervals and with a list of problems.

    groups = collect(["runs/a", "runs/b"])
    print(markdown(summarise(groups)))
    write_report(groups, "report")
    problems(groups)                # sentences; empty if the comparison is fair

Runs with the same algorithm, environment and configuration form a group; statistics treat its seeds as the samples.
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
