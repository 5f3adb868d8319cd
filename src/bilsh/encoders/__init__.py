"""Fitted encoders: what they learn, draw, save, and how they encode."""
