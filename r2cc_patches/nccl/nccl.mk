# The schedules inside NCCL: they see its private headers, and are linked into libnccl alone (`make core`).
NCCL_SRCS := $(wildcard nccl/*.cc)

NCCL_PART_INC := -Inccl -isystem $(NCCL_TREE)/src
$(OBJ)/nccl/%.o: OURS += $(NCCL_PART_INC)
# Whether each compiles by itself, wherever the rest is built.
NCCL_COMPILES := $(NCCL_SRCS:nccl/%.cc=$(OBJ)/nccl/%.compiles)
$(NCCL_COMPILES): $(OBJ)/nccl/%.compiles: nccl/%.cc $(wildcard nccl/*.h agree/*.h agree/*/*.h planner/*.h planner/*/*.h src/*/*.h src/*/*/*.h) | $(GEN)/nccl.h
	@mkdir -p $(@D)
	$(CXX) $(filter-out -MMD -MP,$(OURS)) $(NCCL_PART_INC) -fsyntax-only $<
	@touch $@
$(OBJ)/nccl/compiles: $(NCCL_COMPILES)
	@touch $@

# NCCL's own shrinking, with our hooks, and how schedules begin, where there is no GPU. What they
# would call beyond that is not there, and not called.
NCCL_TEST_SRCS := $(wildcard tests/nccl/*.cc)
NCCL_TEST_FORK := $(wildcard $(addprefix $(NCCL_TREE)/src/,init.cc init_nvtx.cc group.cc debug.cc os/linux.cc misc/argcheck.cc \
  misc/utils.cc misc/param.cc param/param.cc param/param_registry.cc))
NCCL_TEST_O = $(call ours_o,$(NCCL_TEST_SRCS) $(addprefix nccl/,begin.cc capacities.cc chain_buffers.cc chain_channels.cc \
  health_watch.cc lost_ranks.cc schedules.cc) $(NCCL_TEST_FORK)) $(PLANNER_O) $(AGREE_O)
$(OBJ)/tests/nccl/%.o: OURS += $(NCCL_PART_INC)
$(OBJ)/fork/init.o $(OBJ)/fork/group.o: FORK += -Inccl
