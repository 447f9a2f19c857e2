"""Sessions: their fields, states, lists, deletion, and the participants that messages inherit."""
