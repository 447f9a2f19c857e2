"""What runs, waits or is refused: fair queue, adaptive limit, and budgets of bytes and scans."""
