# What the agreement and its tests are made of; included by ../Makefile.
AGREE_SRCS := $(wildcard agree/*.cc)
AGREE_TEST_SRCS := $(wildcard tests/agree_*.cc)
