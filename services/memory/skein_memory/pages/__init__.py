"""Pages: stored questions, whose answers are composed of facts at each read."""
