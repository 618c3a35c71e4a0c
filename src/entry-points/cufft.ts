/** cuda-streams/cufft: Fourier transforms on streams. */
import './shortcuts.js'

export { LibraryError } from './base/errors.js'
export { Fft } from './libraries/cufft/fft.js'
export type { FftOptions, FftType } from './libraries/cufft/fft-shape.js'
