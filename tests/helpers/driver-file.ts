/** The file of the NVIDIA driver, for tests that call it themselves. */
export const DRIVER_FILE: string = process.platform === 'win32' ? 'nvcuda.dll' : 'libcuda.so.1'
