/** CUDA_STREAMS_SANITIZER: starts a sanitizer when the default driver is opened. */
import { provideWrapper } from '../driver/environment-wrappers.js'
import { optionsOf } from './environment-options.js'
import { Sanitizer } from './sanitizer.js'

provideWrapper('CUDA_STREAMS_SANITIZER', (_driver, value) => {
  Sanitizer.start(optionsOf(value))
})
