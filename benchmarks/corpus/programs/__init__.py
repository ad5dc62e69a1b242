"""Programs by field."""
