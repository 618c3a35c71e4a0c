/** cuda-streams/onnx: models run by ONNX Runtime on streams. */
import './shortcuts.js'

export { LibraryError } from './base/errors.js'
export { Session, type SessionOptions } from './libraries/onnx/onnx-session.js'
export type { OnnxType, RunBuffers, ShapedBuffer, TensorInfo } from './libraries/onnx/tensors.js'
