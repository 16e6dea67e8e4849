# The schedules inside NCCL: they see its private headers, and are linked into libnccl alone (`make core`).
NCCL_SRCS := $(wildcard nccl/*.cc)

$(OBJ)/nccl/%.o: OURS += -Inccl -isystem $(NCCL_TREE)/src
