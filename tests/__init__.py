"""The tests; a package, because pgx installs one of this name as well."""
