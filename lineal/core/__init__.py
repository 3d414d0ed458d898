"""What every compiled part stands on: the kernel decorator, the method protocol, scalar maths, seeded numbers, threads."""
