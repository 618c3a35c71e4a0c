/** cuda-streams/cufft: Fourier transforms on streams. */
import '../core/shortcuts.js'

export { LibraryError } from '../foundation/base/errors.js'
export { Fft } from '../libraries/cufft/fft.js'
export type { FftOptions, FftType } from '../libraries/cufft/fft-shape.js'
