"""Between the runtime and a model: requests written, replies read, calls held back until they are good."""
