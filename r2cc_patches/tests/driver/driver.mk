# Plays NCCL on the net's table (docs/internals/net-cases.md); included by ../../Makefile. Nothing of the library is linked in.
DRIVER_SRCS := $(wildcard tests/driver/*.cc) bench/ranks/frame.cc bench/transport/net.cc
