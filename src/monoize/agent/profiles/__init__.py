"""One file per kind of model: how a run speaks to it, and how far its promises go."""
