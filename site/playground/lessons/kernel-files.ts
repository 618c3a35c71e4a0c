/** The kernels of the lessons, in CUDA C++ and as PTX: `node scripts/ptx-kernels.mjs lessons` makes that, since no page can compile. */
import { text as axpySource } from './axpy.cu?text'
import { text as axpyPtx } from './axpy.ptx?text'
import { text as outOfBoundsSource } from './out-of-bounds.cu?text'
import { text as outOfBoundsFixedSource } from './out-of-bounds.fixed.cu?text'
import { text as outOfBoundsFixedPtx } from './out-of-bounds.fixed.ptx?text'
import { text as outOfBoundsPtx } from './out-of-bounds.ptx?text'
import { text as sharedMemorySource } from './shared-memory.cu?text'
import { text as sharedMemoryFixedSource } from './shared-memory.fixed.cu?text'
import { text as sharedMemoryFixedPtx } from './shared-memory.fixed.ptx?text'
import { text as sharedMemoryPtx } from './shared-memory.ptx?text'
import { text as signatureSource } from './signature.cu?text'
import { text as signaturePtx } from './signature.ptx?text'

export interface KernelFile {
  /** A program imports `ptx` from `./name`. */
  readonly name: string
  /** In CUDA C++. */
  readonly source: string
  readonly ptx: string
}

export const KERNEL_FILES: readonly KernelFile[] = [
  { name: 'axpy.cu', source: axpySource, ptx: axpyPtx },
  { name: 'out-of-bounds.cu', source: outOfBoundsSource, ptx: outOfBoundsPtx },
  { name: 'out-of-bounds.fixed.cu', source: outOfBoundsFixedSource, ptx: outOfBoundsFixedPtx },
  { name: 'shared-memory.cu', source: sharedMemorySource, ptx: sharedMemoryPtx },
  { name: 'shared-memory.fixed.cu', source: sharedMemoryFixedSource, ptx: sharedMemoryFixedPtx },
  { name: 'signature.cu', source: signatureSource, ptx: signaturePtx },
]
