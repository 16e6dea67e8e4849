/* For authors of NCCL net plugins: what R2CC needs of a net to survive a NIC's fault over it.
 *
 * Export one constant of this type, by the name r2ccFence_v1, beside ncclNetPlugin_v11. R2CC then keeps messages until
 * they came, makes a connection over another NIC when one fails, and sends again what is missing. How to build and try
 * one, and what else R2CC asks of the net: docs/howto/net-plugin.md.
 */
#ifndef R2CC_FENCE_H_
#define R2CC_FENCE_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
  /* sizeof(r2ccFence_v1_t). R2CC reads no further: what later versions add comes behind. */
  size_t size;

  /* True when a completed isend only means that the message is in a buffer of this host: the receiver then says what
   * came. False when the receiver's test() reports the message as done from that moment on, also after the connection
   * has failed, until fence(). If unsure: true. */
  bool needsAck;

  /* Ends a comm that connect or accept gave, for good. When it returns, nothing on this host reads or writes a
   * message's memory for it any more: no thread, no NIC, whatever may still arrive. It may wait for threads and the
   * driver, never for the peer or the network, which may be lost. It cannot fail. Its requests are not tested again.
   * R2CC then calls deregMr for the comm's memory, and closeSend or closeRecv; neither may wait for the peer. */
  void (*fence)(void* comm);

  /* Frees what connect() has made so far for this handle, where no call has returned a comm yet, or where one failed.
   * The handle is the one given to connect(). Never waits for the peer. */
  void (*cancelConnect)(void* handle);

  /* Closes a listenComm, and frees what accept() has made so far, where no call has returned a comm. Also called in
   * place of closeListen after accept() has returned one; that comm stays. Never waits for the peer. */
  void (*cancelListen)(void* listenComm);

  /* Writes the name of the network interface behind a device ("eth0", with its end, at most `size` bytes) and returns
   * true; false when there is none. NULL: the device's name is the interface's. */
  bool (*interfaceOf)(int device, char* name, size_t size);
} r2ccFence_v1_t;

#define R2CC_FENCE_V1_SYMBOL "r2ccFence_v1"

#endif
