"""Cold storage: sessions whose messages lie in files are archived and unarchived."""
