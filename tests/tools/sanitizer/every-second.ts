/** A kernel that writes every second element, as PTX, so that the simulator runs its code and knows that. */
import { type Device, Module } from 'cuda-streams'

const PTX = `
.version 7.0
.target sm_70
.address_size 64
.visible .entry every_second(.param .u64 x, .param .u32 first)
{
  .reg .b32 %r<5>;
  .reg .b64 %rd<5>;
  ld.param.u64 %rd1, [x];
  ld.param.u32 %r1, [first];
  cvta.to.global.u64 %rd2, %rd1;
  mov.u32 %r2, %tid.x;
  shl.b32 %r3, %r2, 1;
  add.s32 %r4, %r3, %r1;
  mul.wide.s32 %rd3, %r4, 4;
  add.s64 %rd4, %rd2, %rd3;
  st.global.u32 [%rd4], %r2;
  ret;
}
`

/** Its arguments are the memory and the first element. */
export const everySecond = (device: Device) =>
  Module.load(PTX, { device }).kernel('every_second', ['inout i32*', 'i32'])
