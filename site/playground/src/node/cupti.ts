/** Takes the place of the library's timeline/cupti/listen.ts in a page, where CUPTI can record nothing. */
import { stateError } from '../../../../dist/src/base/errors.js'

export const listen: typeof import('../../../../dist/src/timeline/cupti/listen.js').listen = () => {
  throw stateError('ERR_UNSUPPORTED', 'CUPTI cannot be had in a browser')
}
