/* The memory by which JavaScript passes the arguments of a call of C, and gets its result. */
#ifndef FRAME_H
#define FRAME_H

typedef struct {
  void *function;
  /** The arguments, of which the first makes room for the result. A double holds each integer of up to 53 bits. */
  double slots[];
} Frame;

#endif
