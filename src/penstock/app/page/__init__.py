"""What the page shows: looks at pipelines, from their own process or from anywhere."""
