"""What is where: inner memories, transfers between them, copies, and slots."""
