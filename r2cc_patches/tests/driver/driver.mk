# Plays NCCL on the net's table (docs/internals/net-cases.md); included by ../../Makefile. Nothing of the library is linked in.
DRIVER_SRCS := $(wildcard tests/driver/*.cc) bench/comm.cc bench/frame.cc bench/json.cc bench/net.cc
