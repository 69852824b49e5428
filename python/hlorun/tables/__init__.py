"""The tables of `hlorun.batch`: dumps as Parquet, part by part."""
