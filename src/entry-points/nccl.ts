/** cuda-streams/nccl: collective operations of several GPUs on streams. */
import '../core/shortcuts.js'

export { LibraryError } from '../foundation/base/errors.js'
export { Communicator, ncclVersion, uniqueId } from '../libraries/nccl/communicator.js'
export { group } from '../libraries/nccl/group.js'
export type {
  CommunicatorOptions,
  PeerOptions,
  ReductionOptions,
  RootOptions,
  TransferOptions,
} from '../libraries/nccl/nccl-call.js'
export type { NcclReduction, NcclType } from '../libraries/nccl/nccl-library.js'
