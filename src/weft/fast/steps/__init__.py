"""Search steps of one kind of model on one kind of device."""
