# The schedules inside NCCL: they see its private headers, and are linked into libnccl alone (`make core`).
NCCL_SRCS := $(wildcard nccl/*.cc)

NCCL_PART_INC := -Inccl -isystem $(NCCL_TREE)/src
$(OBJ)/nccl/%.o: OURS += $(NCCL_PART_INC)
# Whether they compile, wherever the rest is built.
$(OBJ)/nccl/compiles: $(NCCL_SRCS) $(wildcard nccl/*.h agree/*.h agree/*/*.h planner/*.h planner/*/*.h src/*/*.h src/*/*/*.h) | $(GEN)/nccl.h
	@mkdir -p $(@D)
	printf '#include "%s"\n' $(NCCL_SRCS) | $(CXX) $(filter-out -MMD -MP,$(OURS)) $(NCCL_PART_INC) -fsyntax-only -x c++ -
	@touch $@
