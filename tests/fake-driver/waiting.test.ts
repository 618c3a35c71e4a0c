/** What resumes a program once its GPU is done is the run time's event loop: so each run time is tried, without a GPU. */
import { describe } from 'node:test'
import { playEach, skip, WAITING } from './play.js'

describe('waiting on a fake GPU', { skip, concurrency: 2 }, () => playEach(WAITING))
