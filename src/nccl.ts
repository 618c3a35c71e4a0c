/** The door of NCCL: collective operations of several GPUs on our streams. */
import './shortcuts.js'

export { LibraryError } from './base/errors.js'
export { Communicator, ncclVersion, uniqueId } from './libraries/nccl/communicator.js'
export { group } from './libraries/nccl/group.js'
export type {
  CommunicatorOptions,
  NcclReduction,
  NcclType,
  PeerOptions,
  ReductionOptions,
  RootOptions,
  TransferOptions,
} from './libraries/nccl/options.js'
