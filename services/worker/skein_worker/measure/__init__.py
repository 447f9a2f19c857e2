"""Periodic measurements of the server, the queue, the backlogs, and the newest backup."""
