/**
 * Takes the place of environment-interceptors.ts in a page, which has no environment variables, and of the files that provide interceptors.
 */
type Interceptors = typeof import('./environment-interceptors.js')

export const provideInterceptor: Interceptors['provideInterceptor'] = () => {}
export const interceptAsEnvironmentSays: Interceptors['interceptAsEnvironmentSays'] = () => {}
