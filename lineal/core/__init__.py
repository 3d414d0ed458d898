"""What every compiled part stands on: kernel decorator, method protocol, scalar maths, seeded numbers, threads."""
