# Another vendor's net plugin, without and with what R2CC needs to wrap it (tests/lab/netcases/inner_plugin.py); included by
# ../../Makefile. Of our library it has what the fork's sockets need.
OTHER_BASE_O = $(SRCS_O) $(STAMP) $(call ours_o,src/standalone/stubs.cc) $(FORK_O)
OTHER_NET_O = $(call ours_o,tests/plugin/other_net.cc)
OTHER_FENCE_O = $(call ours_o,tests/plugin/other_fence.cc)
OTHER_LIBS = $(BUILD)/libother_plain.so $(BUILD)/libother_fenced.so
