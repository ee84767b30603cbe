// The few calls of Swagger UI that the page makes; the package ships no types.
declare module "swagger-ui-dist/swagger-ui-es-bundle.js" {
  type Options = {
    spec: Record<string, unknown>;
    dom_id: string;
    deepLinking: boolean;
    docExpansion: "none" | "list" | "full";
    filter: boolean;
    persistAuthorization: boolean;
    tagsSorter: "alpha";
    validatorUrl: null;
    onComplete(): void;
  };
  export default function SwaggerUI(options: Options): { preauthorizeApiKey(scheme: string, value: string): void };
}
