"""A result brought into a person's checkout: merged, planned, applied or taken back."""
