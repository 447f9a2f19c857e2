"""Port 5596: the Unified Memory Reasoning Agent in its two dialects, and the Jarvis memory agent."""
