"""Row deletes of the second format: position delete files, what is live, what a commit changes."""
