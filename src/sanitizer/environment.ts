/** CUDA_STREAMS_SANITIZER: starts a sanitizer when the default driver is opened. Its code is loaded only then. */
import { createRequire } from 'node:module'
import { whenDriverOpens } from '../default-driver.js'

whenDriverOpens(() => {
  const value = process.env['CUDA_STREAMS_SANITIZER'] ?? ''
  if (value === '' || value === '0') return
  const door = createRequire(import.meta.url)('../sanitizer.js') as typeof import('../sanitizer.js')
  door.startFromEnvironment(value)
})
