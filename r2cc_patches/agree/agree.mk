# What the agreement and its tests are made of; included by ../Makefile. Always compiled as two large files: that takes
# a quarter of the time, and a change of one file still only seconds.
AGREE_SRCS := $(wildcard agree/*.cc agree/*/*.cc)
AGREE_TEST_SRCS := $(wildcard tests/agree/*.cc tests/agree/*/*.cc)
# A file more or less compiles them anew.
$(shell mkdir -p "$(OBJ)"; echo '$(AGREE_SRCS) $(AGREE_TEST_SRCS)' | cmp -s - "$(OBJ)/agree.list" || \
  echo '$(AGREE_SRCS) $(AGREE_TEST_SRCS)' > "$(OBJ)/agree.list")
$(call unity,AGREE AGREE_TEST): $(OBJ)/agree.list
