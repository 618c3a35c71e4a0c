import type { Workbench } from '../helpers/workbench.js'
export const wrongArguments = async (_bench: Workbench): Promise<void> => {}
