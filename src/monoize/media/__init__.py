"""Media by reference: where bytes lie, who may read them, and how they become what a provider takes (spec 4, 3)."""
