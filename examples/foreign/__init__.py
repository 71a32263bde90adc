"""Classes that were not written for Quorate, driven by random calls beside twins: see README.md."""
