/** Kernels that take a given time and do nothing else. */
import { type DefinedKernel, defineKernel } from 'cuda-streams'

type Memory = 'in u8*' | 'inout u8*'
export type Busy<Signature extends readonly Memory[] = readonly ['inout u8*']> = DefinedKernel<Signature>

/** A kernel that takes so many microseconds, on a GPU by its clock. */
export const busy = (name: string, microseconds: number): Busy => busyWith(name, microseconds, ['inout u8*'])

/** The same with memory of its own choice. */
export function busyWith<const Signature extends readonly Memory[]>(
  name: string,
  microseconds: number,
  signature: Signature,
): Busy<Signature> {
  const nanoseconds = 1000 * microseconds
  const parameters = signature.map((_, index) => `.param .u64 memory${index}`).join(', ')
  return defineKernel({
    name,
    ptx: `.version 7.0
.target sm_70
.address_size 64
.visible .entry ${name}(${parameters}) {
  .reg .u64 %start, %now, %passed;
  .reg .pred %more;
  mov.u64 %start, %globaltimer;
again:
  mov.u64 %now, %globaltimer;
  sub.u64 %passed, %now, %start;
  setp.lt.u64 %more, %passed, ${nanoseconds};
  @%more bra again;
  ret;
}
`,
    signature,
    nanoseconds,
    simulateGrid() {},
  })
}
