/** cuda-streams/onnx: models run by ONNX Runtime on streams. */
import '../core/shortcuts.js'

export { LibraryError } from '../foundation/base/errors.js'
export { Session, type SessionOptions } from '../libraries/onnx/onnx-session.js'
export type { OnnxType, RunBuffers, ShapedBuffer, TensorInfo } from '../libraries/onnx/tensors.js'
