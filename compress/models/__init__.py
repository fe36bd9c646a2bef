"""Teachers and students: loaded, built, cut and saved."""
