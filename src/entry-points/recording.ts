/** cuda-streams/recording: writes what a program does with its streams to a file, to be checked, drawn and played again. */
import '../foundation/base/node-version.js'
// So that CUDA_STREAMS_RECORD works in a bundle too.
import '../tools/recording/recording-variable.js'

export { Recorder, type RecorderOptions } from '../tools/recording/recorder.js'
