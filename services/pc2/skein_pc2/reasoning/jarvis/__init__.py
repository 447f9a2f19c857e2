"""The Jarvis memory agent, on ports 5598 and 5596."""
