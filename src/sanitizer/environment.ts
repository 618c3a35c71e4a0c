/** CUDA_STREAMS_SANITIZER: starts a sanitizer when the default driver is opened. */
import { provideWrapper } from '../driver/environment-wrappers.js'
import { checkMode, Sanitizer } from './sanitizer.js'

provideWrapper('CUDA_STREAMS_SANITIZER', (_driver, value) => {
  Sanitizer.start({ mode: value === '1' ? 'print' : checkMode(value, 'CUDA_STREAMS_SANITIZER') })
})
